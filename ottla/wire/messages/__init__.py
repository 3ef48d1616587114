"""Requests and responses: one module an API, named after it. Import the module that is spoken, and no other."""
