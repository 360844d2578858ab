-- A pause may say until when it is planned. It does not end by itself.

ALTER TABLE steps_settings ADD COLUMN planned_end timestamptz;
ALTER TABLE steps_settings ADD COLUMN revision integer NOT NULL DEFAULT 0; -- what Stepwell itself writes has a new one
