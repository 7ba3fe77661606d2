"""Tokenizers: text to token ids and back. Those trained here are exact, since all 256 bytes are tokens."""
