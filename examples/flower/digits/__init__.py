"""Handwritten digits: FedAvg over sites, then one calibration round."""
