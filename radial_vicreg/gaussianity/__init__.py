"""Diagnosis of the Gaussianity of embeddings: statistics, tables and a figure, compared with a normal sample."""
