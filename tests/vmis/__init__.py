"""A table of 60 VMIs, 30 to be let in and 30 not, with verdict and result worked by hand.

`world.yaml` is what is there; `admitted.yaml` and `refused.yaml` are the cases. Each has
`annotations` (the part after `gpu.cozystack.io/`), and may have `name` (vm1 if not given, none if
null), `namespace` (tenant-acme), `vm` (the VirtualMachine that it says controls it), `devices`,
`resources`, `spec` (further members) and `settings` (of the ConfigMap). An admitted one says what
is added: `gpus` as device names by entry name, `record`, and where it has a licence `volumes` and
`disks`; everything else stays. A refused one says `reason` and `message`.
"""
