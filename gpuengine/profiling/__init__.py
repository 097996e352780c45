"""Where the time and the memory of an evaluation went: as data, as text, and as a page."""
