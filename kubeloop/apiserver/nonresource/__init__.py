"""TODO: nonresource."""
