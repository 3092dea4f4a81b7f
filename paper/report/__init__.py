"""Tables, figures and scoreboards made of finished cells."""
