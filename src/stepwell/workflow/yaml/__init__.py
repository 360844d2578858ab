"""The YAML form of workflows.

document   a text becomes plain data, with the line of everything
fields     the keys of a workflow and of its steps
load       documents become workflows
export     a template becomes YAML
"""
