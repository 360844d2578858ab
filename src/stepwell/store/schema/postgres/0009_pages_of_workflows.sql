-- Pages of a workflow and of the children of a step are in the order of ids: without the id, a page of 100 out of 100,000
-- steps reads and sorts them all. (SQLite's indexes end with the id anyway.)

DROP INDEX steps_by_workflow;
CREATE INDEX steps_by_workflow ON steps (workflow_id, id) WHERE workflow_id <> uuid;
DROP INDEX steps_by_parent;
CREATE INDEX steps_by_parent ON steps (parent_step_id, id) WHERE parent_step_id IS NOT NULL;
