"""A cluster of simulated chips on this machine.

Three layers that know nothing of those above them: ``device`` gives torch a device
whose memory is the CPU's, ``backend`` a process group over gloo that keeps a vendor's
limits, and ``path`` the vendor's own module, importable only in a simulated run.
"""
