"""Lightning's callbacks: what happens around the steps of a training."""
