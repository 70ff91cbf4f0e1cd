"""The parts of the network that surround attention."""
