"""How Gaussian the embeddings of a network or a matrix are: numbers, a table and a figure beside a normal sample's."""
