"""One module per API: its request, its response and their structures, in wire order with version marks.

To add an API, add a module; `kwire.protocol.registry` finds it. To add a version, raise the upper end of `versions` and
mark the fields that it adds.
"""

from __future__ import annotations
