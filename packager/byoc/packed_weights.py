"""Weights of regions in the formats of oneDNN on this machine, stored beside the plain ones.

The plug-in makes them, from the regions in a library of their own. docs/design/packing.md says why both
are stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import mblob
from mblob.format.type_keys import DNNL_JSON
from mblob.module import Module
from mblob.packager.byoc.operators import Region
from mblob.packager.modules.payload_modules import blob_module
from mblob.temporary import temporary_folder
from mblob.user_warnings import suppressed_warnings

DNNL_PACKED = "dnnl_packed"  # the plug-in has its grammar: csrc/plugins/dnnl/packed.h
_ALIGNMENT = 64  # of what kernels read


def add_packed(loader: Module, regions: Sequence[Region]) -> None:
    """Give each region an import with its weights.

    Args:
        loader: the const_loader above the modules of the regions.

    Raises:
        LoaderMissingError: no oneDNN is installed. As of `export_library`.
    """
    with temporary_folder() as folder:
        with suppressed_warnings(mblob.PortabilityWarning):
            mblob.export_library(loader, folder / "regions.so")
        opened = [
            m for m in mblob.load_module(folder / "regions.so").walk() if m.type_key == DNNL_JSON
        ]
        by_symbol = {str(m.get_function("get_symbol")()): m for m in opened}
        for region, module in zip(regions, loader.imported_modules):
            constants = {name: t.constant for name, t in region.named_constants.items()}
            values = mblob.load_param_dict(mblob.save_param_dict(constants))
            prepack = by_symbol[region.symbol].get_function("prepack")
            payload = bytes(prepack(*(values[name] for name in constants)))
            if payload:  # one with open sizes has formats when a call tells them
                module.import_module(blob_module(DNNL_PACKED, payload, alignment=_ALIGNMENT))
