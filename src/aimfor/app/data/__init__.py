"""Where examples come from: tables, arrays, folders of pictures, built-in sets; read, never guessed twice."""
