"""The JSON API below `/api/v1`: a table of typed endpoints, from which routes and the OpenAPI document are made."""
