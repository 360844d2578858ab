"""The verbs: one typed function for each transition and each question, with its SQL in `store/sql/<module>.sql`."""
