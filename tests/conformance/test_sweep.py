"""The sweep finds nothing on healthy data, and mends exactly what was broken."""
