"""`tvm.runtime.vm`: programs of the Relay virtual machine."""

from mblob import vm

Executable = vm.Executable
VirtualMachine = vm.VirtualMachine

__all__ = ["Executable", "VirtualMachine"]
