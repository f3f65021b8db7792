"""Lightning callbacks, which act before and after the steps of a training."""
