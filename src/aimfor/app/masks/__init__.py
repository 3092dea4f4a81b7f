"""Masks in the program: pictures with a class for every pixel, from ``aimfor train --masks`` to PNG files."""
