"""One self-contained HTML file about a run or a comparison: inline SVG, a little plain JavaScript, no network."""
