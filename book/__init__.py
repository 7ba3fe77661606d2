"""The book: docs/, README and the changelog as one site in English and Chinese; `make docs` builds it."""
