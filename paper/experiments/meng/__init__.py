"""Meng 2021: linear programs inside the network."""
