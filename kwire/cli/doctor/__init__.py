"""`kwire doctor`: what keeps a client from reading, step by step: what is wrong in a sentence, and what to do."""
