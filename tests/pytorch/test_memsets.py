"""Memsets of a graph become kernels: the driver is a small one of ours, whose graph is looked at; on a GPU a graph runs."""

import types
import unittest
import unittest.mock

import torch

from cairn import _memsets

KERNEL = 0


class Driver:
    """Graphs of CUDA's driver: nodes with their kind and what they do, and edges."""

    def __init__(self, nodes, edges):
        self.nodes, self.edges, self.refuses = dict(nodes), set(edges), False

    def _fill(self, found, place, count):
        count._obj.value = len(found)
        for i, handle in enumerate(found if place is not None else ()):
            place[i] = handle
        return 0

    def cuGraphGetNodes(self, graph, place, count):
        return self._fill(list(self.nodes), place, count)

    def cuGraphNodeGetType(self, node, kind):
        kind._obj.value = self.nodes[node.value][0]
        return 0

    def cuGraphMemsetNodeGetParams(self, node, memset):
        for name, value in self.nodes[node.value][1].items():
            setattr(memset._obj, name, value)
        return 0

    def cuGraphNodeGetDependencies(self, node, place, count):
        return self._fill(sorted(a for a, b in self.edges if b == node.value), place, count)

    def cuGraphNodeGetDependentNodes(self, node, place, count):
        return self._fill(sorted(b for a, b in self.edges if a == node.value), place, count)

    def cuGraphAddKernelNode_v2(self, new, graph, before, count, kernel):
        if self.refuses:
            return 801
        new._obj.value = max(self.nodes) + 1
        kernel = kernel._obj
        place, value, words = (_memsets.C.cast(kernel.arguments[i], _memsets.C.POINTER(kind))[0] for i, kind in enumerate(
            (_memsets.C.c_uint64, _memsets.C.c_uint, _memsets.C.c_uint64)))
        self.nodes[new._obj.value] = KERNEL, dict(function=kernel.function, threads=kernel.grid[0] * kernel.block[0],
                                                  place=place, value=value, words=words)
        self.edges |= {(before[i], new._obj.value) for i in range(count.value)}
        return 0

    def cuGraphAddDependencies(self, graph, some, others, count):
        self.edges |= {(some[i], others[i]) for i in range(count.value)}
        return 0

    def cuGraphDestroyNode(self, node):
        del self.nodes[node.value]
        self.edges = {edge for edge in self.edges if node.value not in edge}
        return 0


def memset(place, value, element, width, height=1):
    return _memsets.MEMSET, dict(place=place, pitch=0, value=value, element=element, width=width, height=height)


class Memsets(unittest.TestCase):
    def changed(self, driver):
        with unittest.mock.patch.object(_memsets, "_driver", lambda: driver), \
                unittest.mock.patch.object(_memsets, "_compiled", lambda device: types.SimpleNamespace(func=77)), \
                unittest.mock.patch.object(torch.cuda, "current_device", lambda: 0):
            _memsets.as_kernels(5)
        return driver

    def test_graph(self):
        """Each waits for what its memset waited for, and sets the same bytes."""
        driver = self.changed(Driver({1: (KERNEL, {}), 2: memset(4096, 0x5a, 1, 1 << 20), 3: (KERNEL, {}), 4: (KERNEL, {}),
                                      9: memset(512, 0xffffabcd, 2, 6), 10: memset(64, 7, 4, 1)},
                                     {(1, 2), (2, 3), (2, 4), (4, 9), (9, 10)}))
        self.assertEqual([kind for kind, _ in driver.nodes.values()], [KERNEL] * 6)
        large, short, word = (what for _, what in list(driver.nodes.values())[3:])
        self.assertEqual((large["place"], large["value"], large["words"]), (4096, 0x5a5a5a5a, 1 << 18))
        self.assertEqual((short["place"], short["value"], short["words"]), (512, 0xabcdabcd, 3))
        self.assertEqual((word["place"], word["value"], word["words"], word["function"]), (64, 7, 1, 77))
        self.assertEqual(large["threads"], (1 << 18) // _memsets.EACH)
        self.assertEqual(driver.edges, {(1, 11), (11, 3), (11, 4), (4, 12), (12, 13)})

    def test_left_alone(self):
        """What is not whole words of one row, or nothing at all."""
        nodes = {1: memset(64, 0, 1, 7), 2: memset(66, 0, 1, 8), 3: memset(64, 0, 1, 8, height=2), 4: memset(64, 0, 1, 0)}
        self.assertEqual(self.changed(Driver(nodes, {(1, 2)})).nodes, nodes)

    def test_refused(self):
        """An error of the driver is told."""
        driver = Driver({1: memset(64, 0, 4, 1)}, ())
        driver.refuses = True
        with self.assertRaisesRegex(RuntimeError, "error 801"):
            self.changed(driver)

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_on_device(self):
        """A graph with a copy to the host in between."""
        driver, C, kind = _memsets._driver(), _memsets.C, _memsets.C.c_int()
        side, host = torch.cuda.Stream(), torch.empty(1 << 20, pin_memory=True)
        x, graph = torch.ones(1 << 20, device="cuda"), torch.cuda.CUDAGraph(keep_graph=True)

        def zero(values):
            stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
            _memsets._check(driver.cuMemsetD8Async(C.c_uint64(values.data_ptr()), C.c_ubyte(0),
                                                   C.c_size_t(4 * values.numel()), stream))

        def memsets():
            found = 0
            for node in _memsets._list(driver.cuGraphGetNodes, C.c_void_p(graph.raw_cuda_graph())):
                _memsets._check(driver.cuGraphNodeGetType(node, C.byref(kind)))
                found += kind.value == _memsets.MEMSET
            return found
        with torch.cuda.graph(graph):
            zero(x)
            x.add_(1)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                host.copy_(x, non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            zero(x[:5])
        self.assertGreaterEqual(memsets(), 2)
        _memsets.as_kernels(graph.raw_cuda_graph())
        self.assertEqual(memsets(), 0)
        graph.instantiate()
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(host.eq(1).all() and x[:5].eq(0).all() and x[5:].eq(1).all())


if __name__ == "__main__":
    unittest.main()
