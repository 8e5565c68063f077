"""`kwire doctor`: it checks step by step what keeps a client from reading, and says what is wrong and what to do."""
