"""The experiments of the paper, a script for each figure: ``python -m reproduce`` lists
them.

``data``, ``models``, ``methods`` and ``protocol`` hold what the scripts share. Each
script has a function ``compute``, from settings to a data frame, and a function
``draw``, from that data frame to a figure.
"""
