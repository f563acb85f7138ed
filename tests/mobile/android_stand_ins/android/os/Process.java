package android.os;

public class Process {
    public static final int myPid() {
        return 1;
    }

    public static final void killProcess(int pid) {}
}
