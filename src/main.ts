// Entry of the executable: a CNI call when CNI_COMMAND is set, else the command line. Nothing else.
process.stderr.write(process.env['CNI_COMMAND'] === undefined ? 'aether-cni\n' : 'aether-cni: no plugin yet\n');
