"""Several findings per patient: FedAvg over sites, then one number per site bounds the
share missed.
"""
