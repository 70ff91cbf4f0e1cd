"""Forecasters of one interface: the pretrained network, theta."""
