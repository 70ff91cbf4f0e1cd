"""What the network that comes trained is trained on: generated series. Not a part of the package `informer`."""
