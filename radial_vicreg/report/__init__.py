"""Tables and figures of any runs from their ``results.json`` files."""
