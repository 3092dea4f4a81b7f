"""Windows and boxes: what detection needs beside a loss on scores. Boxes are ``(x0, y0, x1, y1)`` in pixels from 0."""
