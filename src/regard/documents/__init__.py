"""Documents: texts, HTML and files as sentences to translate, and their translations put back in place."""
