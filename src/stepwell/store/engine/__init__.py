"""The verbs: one typed function per transition and per query, each with its SQL in `store/sql/<module>.sql`."""
