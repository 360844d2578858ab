"""What stands before every route: hosts, origins, sign-in, roles, sizes and headers."""
