"""The demo: a decorated retrieval-augmented pipeline over fictional policy wordings, with faults to inject."""
