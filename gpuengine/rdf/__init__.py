"""RDF: triples in, RDFox's rules, OWL 2 RL and RDFS, SPARQL out."""
