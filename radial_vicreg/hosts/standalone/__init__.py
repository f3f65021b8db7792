"""The embedded host: Lightning, timm and torchvision, following solo-learn's rules."""
