"""``radial-vicreg try``: train three methods briefly on the same images, and compare their embeddings and probes."""
