"""Where pods may go: a table of cases that we and the real kube-scheduler decide (rule 7.5)."""
