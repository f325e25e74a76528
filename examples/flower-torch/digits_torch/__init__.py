"""A small PyTorch network: FedAvg over sites, then one calibration round."""
