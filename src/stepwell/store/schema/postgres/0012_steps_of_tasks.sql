-- The newest steps of main processes, for the shares of their classes: `belongs_to` never changes.
CREATE INDEX steps_of_tasks ON steps (id) WHERE belongs_to = 'process';
