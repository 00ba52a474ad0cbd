"""One module a verb: from a request that may be served to its answer."""
