"""Rules: bodies as pipelines and steps on columns, and what every rule of one evaluation shares."""
