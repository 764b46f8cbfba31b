"""In the style of apps/dso_plugin_module/test_plugin_module.py. Argument: the library of plugin_module.cpp."""

import sys

import mblob.compat.tvm as tvm

mod = tvm.runtime.load_module(sys.argv[1])
print(mod.get_function("SubOne")(10))
extension = mod["CreateMyModule"](5)
print(extension["add"](3), extension["mul"](3), extension.type_key)
