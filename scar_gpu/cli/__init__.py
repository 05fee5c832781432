"""The command `scar-gpu`; needs `scar_gpu[cli]`."""
