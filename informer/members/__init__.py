"""Forecasters without training steps: the pretrained network, theta, linear maps in closed form."""
