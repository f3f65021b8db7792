"""Hosts that train with the losses: solo-learn (``solo``) and Lightning, timm and torchvision (``standalone``)."""
